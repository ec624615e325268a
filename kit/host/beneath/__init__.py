"""What is removed, unpacked, copied and listed below a directory that somebody else could write: by descriptors of
directories, so that no symlink leads elsewhere, and never behind another mount."""

from kit.host.beneath.attributes import Attributes, read_attributes, write_attributes
from kit.host.beneath.copy import copy_file, plain_files
from kit.host.beneath.cursor import Cursor, open_directory
from kit.host.beneath.listing import Mark, marks
from kit.host.beneath.members import Members, Owned, empty_file
from kit.host.beneath.remove import remove, remove_at
from kit.host.beneath.scratch import scratch
from kit.host.beneath.trusted import open_real, open_trusted
from kit.host.beneath.unpack import unpack

__all__ = [
    "Attributes",
    "Cursor",
    "Mark",
    "Members",
    "Owned",
    "copy_file",
    "empty_file",
    "marks",
    "open_directory",
    "open_real",
    "open_trusted",
    "plain_files",
    "read_attributes",
    "remove",
    "remove_at",
    "scratch",
    "unpack",
    "write_attributes",
]
