"""Requirements of a start in production; pure."""

from collections.abc import Mapping

SHORTEST_KEY = 32
AMQP = ("amqp://", "amqps://")


def problems(environ: Mapping[str, str]) -> list[str]:
    """Return what is missing or unsafe, in words; empty if the processes can work together.

    The defaults of standalone would differ from process to process here: a random key logs people
    out at every other request, and a broker in memory reaches nobody.
    """
    found = []
    key = environ.get("REPRISE_SECRET_KEY", "")
    if len(key) < SHORTEST_KEY:
        state = "is too short" if key else "is not set"
        found.append(
            f"REPRISE_SECRET_KEY {state}: give every process the same {SHORTEST_KEY} random "
            "characters or more"
        )
    if not environ.get("REPRISE_ENCRYPTION_KEYS"):
        found.append(
            f"REPRISE_ENCRYPTION_KEYS is not set: give every process the same {SHORTEST_KEY} "
            "random characters or more, with which the secrets in the database are encrypted"
        )
    if not environ.get("DATABASE_URL"):
        found.append("DATABASE_URL is not set")
    if not environ.get("BROKER_URL", "").startswith(AMQP):
        found.append("BROKER_URL must be the address of a RabbitMQ, amqp://...")
    hosts = environ.get("REPRISE_ALLOWED_HOSTS", "")
    if not hosts or "*" in hosts.split(","):
        found.append("REPRISE_ALLOWED_HOSTS must name the hosts under which the server answers")
    return found
