"""Web pages for people. Programs use api/, operators admin/."""
