"""Experimental: maxk's own inference engine on transformers, for CPUs and small models."""
