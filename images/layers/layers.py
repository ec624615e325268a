"""Writes the layers of the image, lowest first: DIRECTORY/001, DIRECTORY/002 … The same files each time.

/layers/NAME/DD/NNNN   files of one size in directories of 100, all in the lowest layer
/layers/span-LLL/NNNN  200 files of one directory, spread over LLL layers
"""

import random
import sys
from pathlib import Path

LAYERS = 100
SPANS = (1, 5, 10, 50, 100)
SPAN_FILES = 200
#: Name, number of files, size of each.
SETS = (
    ("large-read", 8, 16 << 20), ("large-append", 8, 16 << 20),
    ("small-read", 5000, 2048), ("small-append", 2000, 2048),
    ("moved", 500, 2048), ("modes", 1000, 2048), ("owners", 1000, 2048), ("gone", 1000, 2048),
)  # fmt: skip
DEEP = 20  # chains of directories, each so many levels


def main(directory: Path) -> None:
    source = random.Random(1)
    low = directory / "001" / "layers"
    for name, count, size in SETS:
        for number in range(count):
            path = low / name / f"{number // 100:02}" / f"{number:04}"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(source.randbytes(size))
    for number in range(DEEP):
        path = low / "deep" / "/".join(f"{number:02}-{level:02}" for level in range(DEEP))
        path.mkdir(parents=True)
        (path / "file").write_bytes(source.randbytes(2048))
    for layers in SPANS:
        for number in range(SPAN_FILES):
            layer = 1 + number % layers * (LAYERS // layers)
            path = directory / f"{layer:03}" / "layers" / f"span-{layers:03}" / f"{number:04}"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(source.randbytes(64))


main(Path(sys.argv[1]))
