"""Removes, unpacks, copies and lists files below a directory to which others could write. All work uses descriptors of
directories, so no symlink leads outside, and no mount is crossed."""

from kit.core.trusted import open_real, open_trusted
from kit.host.safe_fs.attributes import TAR_ATTRIBUTES, Attributes, read_attributes, write_attributes
from kit.host.safe_fs.copy import copy_file, plain_files
from kit.host.safe_fs.dir_walker import DirWalker, open_directory
from kit.host.safe_fs.listing import Mark, marks
from kit.host.safe_fs.members import Members, Owned, empty_file
from kit.host.safe_fs.remove import remove, remove_at
from kit.host.safe_fs.scratch import remove_abandoned, scratch
from kit.host.safe_fs.unpack import unpack

__all__ = [
    "TAR_ATTRIBUTES",
    "Attributes",
    "DirWalker",
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
    "remove_abandoned",
    "remove_at",
    "scratch",
    "unpack",
    "write_attributes",
]
