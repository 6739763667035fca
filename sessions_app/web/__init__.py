"""Pages for people. Programs use api/, operators admin/."""
