"""An OCI runtime that is runc but for the root filesystem: the ``runtime`` arm's container enters a plain directory.

The engine calls it in runc's place; where the container's environment names KIT_PLAIN_ROOT, the bundle's root is
replaced before runc sees it. Everything else of the container (namespaces, cgroup, seccomp, mounts) is what the engine
wrote, so the runtime arm and the bind arm differ in the root filesystem alone. Imports nothing of the kit.

plain_runtime.py RUNTIME [inherit-limits] -- ARGUMENTS…   inherit-limits: leave out the resource limits that the engine
asks for, where the machine does not let it set them; the container then has the engine's own, as Docker's have.
"""

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
