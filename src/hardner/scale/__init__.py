"""More text, or more cells of a table, than one process should take: plan, shards, engines."""

from hardner.scale.ledger import Summary
from hardner.scale.tagging import Done, tag

__all__ = ["Done", "Summary", "tag"]
