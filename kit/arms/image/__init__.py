"""Root filesystems: built from Debian packages, or taken from a tarball, a directory or a registry; cached by content.

A recipe is a file of ``images/``. Imports host and core."""

from kit.arms.image.image import Image, ImageCache, unpack
from kit.arms.image.recipe import Recipe, read_recipe, recipes

__all__ = ["Image", "ImageCache", "Recipe", "read_recipe", "recipes", "unpack"]
