"""An OCI runtime that is runc but for the root filesystem: the ``runtime`` arm's container enters a plain directory.

The engine calls it in runc's place; where the container's environment names KIT_PLAIN_ROOT, the bundle's root is
replaced before runc sees it. Everything else of the container (namespaces, cgroup, seccomp, mounts) is what the engine
wrote, so the runtime arm and the bind arm differ in the root filesystem alone. Imports nothing of the kit.
"""

import json
import os
import sys

VARIABLE = "KIT_PLAIN_ROOT"


def replace_root(bundle: str) -> None:
    path = os.path.join(bundle, "config.json")
    with open(path, encoding="utf-8") as file:
        config = json.load(file)
    environment = config["process"]["env"]
    for entry in [entry for entry in environment if entry.startswith(f"{VARIABLE}=")]:
        config["root"]["path"] = entry.partition("=")[2]
        environment.remove(entry)
        with open(path, "w", encoding="utf-8") as file:
            json.dump(config, file)


def main(arguments: list[str]) -> None:
    if "create" in arguments and "--bundle" in arguments:
        replace_root(arguments[arguments.index("--bundle") + 1])
    os.execvp("runc", ["runc", *arguments])


if __name__ == "__main__":
    main(sys.argv[1:])
