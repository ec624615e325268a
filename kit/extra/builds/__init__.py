"""Image builds as arms: each command runs as a RUN step of a Dockerfile, and its time is the build tool's.

Imports arms, host and model."""
