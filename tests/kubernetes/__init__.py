"""Tests against a real Kubernetes API server; `kubelet.py` plays its nodes."""
