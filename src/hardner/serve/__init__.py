"""The workbench: a project in one file, its HTTP interface, and the page that uses it."""
