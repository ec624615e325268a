"""An OCI runtime that wraps runc but replaces the root filesystem: the ``runtime`` arm's container enters a plain
directory.

The engine calls it instead of runc. If the container's environment names KIT_PLAIN_ROOT, it replaces the bundle's root
before it calls runc. The rest of the container (namespaces, cgroup, seccomp, mounts) is unchanged, so the runtime arm
and the bind arm differ only in the root filesystem. Imports nothing of the kit.

plain_runtime.py RUNTIME [inherit-limits] -- ARGUMENTS…

inherit-limits: leave out the engine's resource limits if the machine does not permit them. The container then has the
engine's own limits, as Docker's containers have."""

import json
import os
import sys

VARIABLE = "KIT_PLAIN_ROOT"


def mend(bundle: str, inherit_limits: bool) -> None:
    path = os.path.join(bundle, "config.json")
    with open(path, encoding="utf-8") as file:
        config = json.load(file)
    environment = config["process"]["env"]
    for entry in [entry for entry in environment if entry.startswith(f"{VARIABLE}=")]:
        config["root"]["path"] = entry.partition("=")[2]
        environment.remove(entry)
    if inherit_limits:
        config["process"].pop("rlimits", None)
    with open(path, "w", encoding="utf-8") as file:
        json.dump(config, file)


def main(words: list[str]) -> None:
    cut = words.index("--")
    runtime, *options = words[:cut]
    arguments = words[cut + 1 :]
    if "create" in arguments and "--bundle" in arguments:
        mend(arguments[arguments.index("--bundle") + 1], "inherit-limits" in options)
    os.execvp(runtime, [runtime, *arguments])


if __name__ == "__main__":
    main(sys.argv[1:])
