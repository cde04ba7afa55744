"""Evaluation: protocols as plans, strict scores, significance, and tables beside the papers'."""
