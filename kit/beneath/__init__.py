"""What is removed, unpacked, copied and listed below a directory that somebody else could write: by descriptors of
directories, so that no symlink leads elsewhere, and never behind another mount."""

from kit.beneath.copy import copy_file, plain_files
from kit.beneath.cursor import Cursor, open_directory
from kit.beneath.listing import Mark, marks
from kit.beneath.members import Members, Owned, empty_file
from kit.beneath.remove import remove, remove_at
from kit.beneath.scratch import scratch
from kit.beneath.unpack import unpack

__all__ = [
    "Cursor",
    "Mark",
    "Members",
    "Owned",
    "copy_file",
    "empty_file",
    "marks",
    "open_directory",
    "plain_files",
    "remove",
    "remove_at",
    "scratch",
    "unpack",
]
