"""A session from the request to its last sample: what it needs is gathered, provisioned, run in order, measured.

``start`` decides where it runs, ``local`` here and ``guest_host`` in a guest, where ``guest_agent`` answers by
``guest_protocol``; ``loop`` alone knows the order of steps.
Imports everything below it: engines, guests, filesystems, images, the store."""
