"""What an arm is made of: engines, the images and filesystems below them, and the probe that times a run.

Imports host, model and core."""
