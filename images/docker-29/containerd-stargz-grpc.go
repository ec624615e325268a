// Serves the stargz snapshotter to containerd, as the program of this name in a module that no proxy has does:
// github.com/containerd/stargz-snapshotter/cmd. It takes those of its flags that the kit needs.
package main

import (
	"context"
	"flag"
	"fmt"
	"net"
	"os"
	"runtime/debug"

	snapshotsapi "github.com/containerd/containerd/api/services/snapshots/v1"
	"github.com/containerd/containerd/v2/contrib/snapshotservice"
	"github.com/containerd/log"
	"github.com/containerd/stargz-snapshotter/service"
	"google.golang.org/grpc"
)

func serve(address, root string) error {
	config := service.Config{}
	snapshotter, err := service.NewStargzSnapshotterService(context.Background(), root, &config)
	if err != nil {
		return err
	}
	defer snapshotter.Close()
	server := grpc.NewServer()
	snapshotsapi.RegisterSnapshotsServer(server, snapshotservice.FromSnapshotter(snapshotter))
	listener, err := net.Listen("unix", address)
	if err != nil {
		return err
	}
	return server.Serve(listener)
}

func printVersion() {
	info, _ := debug.ReadBuildInfo()
	for _, module := range info.Deps {
		if module.Path == "github.com/containerd/stargz-snapshotter" {
			fmt.Println("containerd-stargz-grpc", module.Version)
		}
	}
}

func main() {
	address := flag.String("address", "", "socket to serve on")
	root := flag.String("root", "", "directory of snapshots")
	version := flag.Bool("version", false, "print the version")
	flag.Parse()
	if *version {
		printVersion()
		return
	}
	if err := serve(*address, *root); err != nil {
		log.L.WithError(err).Fatal("the stargz snapshotter does not serve")
		os.Exit(1)
	}
}
