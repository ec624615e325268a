"""Removes, unpacks, writes, copies and lists files below a directory to which others could write. All work uses
descriptors of directories, so no symlink leads outside, and no mount is crossed."""

from kit.core.trusted import open_real, open_trusted
from kit.host.safe_fs.dir_walker import (
    TAR_ATTRIBUTES,
    Attributes,
    DirWalker,
    open_directory,
    read_attributes,
    write_attributes,
)
from kit.host.safe_fs.listing import Mark, identity, marks
from kit.host.safe_fs.remove import remove, remove_at
from kit.host.safe_fs.scratch import remove_abandoned, scratch
from kit.host.safe_fs.tree import copy_directory, copy_file, is_directory, new_file, open_file, plain_files, write_new
from kit.host.safe_fs.unpack import Members, Owned, unpack

__all__ = [
    "TAR_ATTRIBUTES",
    "Attributes",
    "DirWalker",
    "Mark",
    "Members",
    "Owned",
    "copy_directory",
    "copy_file",
    "identity",
    "is_directory",
    "marks",
    "new_file",
    "open_directory",
    "open_file",
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
    "write_new",
]
