"""What every long run needs: a folder of its own, a lock on it, and a device."""
