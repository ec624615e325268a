#!/bin/bash
# hyperfine's memory_usage_byte of a command is the maximum over all commands before it.
#
# It is ru_maxrss of all children so far. A small program that is listed after a large one "uses" the large one's
# memory. Seen with hyperfine 1.20.0 (the Rust registry): true has 309 MiB after such a program, and 2 MiB alone.
# With cargo. Installs the package in a temporary folder.
set -euo pipefail
version=1.20.0
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
CARGO_TARGET_DIR="$dir/target" nice cargo install --quiet --locked --root "$dir/root" --version "$version" hyperfine 2>"$dir/log"
"$dir/root/bin/hyperfine" --version
large="python3 -c 'b\"x\" * (300 << 20)'"
"$dir/root/bin/hyperfine" --shell=none --runs 2 --export-json "$dir/out.json" "$large" /bin/true >/dev/null 2>&1
"$dir/root/bin/hyperfine" --shell=none --runs 2 --export-json "$dir/alone.json" /bin/true >/dev/null 2>&1
python3 - "$dir/out.json" "$dir/alone.json" <<'END'
import json, sys
after, alone = (json.load(open(path))["results"][-1]["memory_usage_byte"][-1] >> 20 for path in sys.argv[1:])
print(f"true after a program of 300 MiB: {after} MiB; true alone: {alone} MiB")
sys.exit(0 if after > 250 and alone < 50 else "changed")
END
