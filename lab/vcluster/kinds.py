"""The kinds of nodes that have a kernel of their own, by the word of ``up --machines``."""

import uml
import vm

#: Each module has ``kernel()``, ``connect()`` and ``start()``, and says what a node has:
#: STATED_MIB, SOCKETS, TASK, PROLOG.
KINDS = {"uml": uml, "vm": vm}
