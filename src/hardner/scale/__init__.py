"""More text, or more cells of a table, than one process should take: plan, shards, engines."""

from hardner.scale.ledger import Summary
from hardner.scale.tagging import ShardProgress, tag_files

__all__ = ["ShardProgress", "Summary", "tag_files"]
