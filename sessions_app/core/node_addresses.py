"""The addresses of nodes in figures: nodes of two executors may have equal names. Pure."""


def node_address(executor: str, name: str) -> str:
    """Return `executor/name`; the name alone of a node without an executor, "" for no node."""
    return f"{executor}/{name}" if executor and name else name


def node_name(address: str) -> str:
    """Return the name of a node, of its address."""
    return address.rpartition("/")[2]


def is_node(address: str, wanted: str) -> bool:
    """Return whether a node is the wanted one, which is given by its address or by its name."""
    return address == wanted or address.endswith(f"/{wanted}")
