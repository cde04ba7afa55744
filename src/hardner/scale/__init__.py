"""More text, or more cells of a table, than one process should take: plan, shards, engines."""

from hardner.scale.receipts import Summary
from hardner.scale.sharding import ShardProgress, tag_files
from hardner.scale.tagging import TagJob

__all__ = ["ShardProgress", "Summary", "TagJob", "tag_files"]
