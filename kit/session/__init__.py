"""A session from the request to its last sample: it gathers, provisions, runs in order, and measures.

``launch`` lists the steps. ``start`` plans a new, resumed or assigned session; ``execute`` runs it on this machine; an
extra's ``place``, as a guest, whose agent answers by ``wire``, runs it elsewhere. ``keep`` records how it ends.
Imports everything below it: engines, filesystems, images, the store."""
