"""What every package may use: errors of the user's, the kit's directories, quantities, text that is read and shown,
and the codec between frozen dataclasses and what is stored or sent.

Imports no other package of the kit."""
