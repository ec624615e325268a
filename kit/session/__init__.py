"""A session from the request to its last sample: it gathers, provisions, runs in order, and measures.

``start`` decides where the session runs. ``execute`` runs it on this machine; an extra's ``place``, as a guest, whose
agent answers by ``wire``, runs it elsewhere. ``execute/session_loop`` alone defines the order of steps.
Imports everything below it: engines, filesystems, images, the store."""
