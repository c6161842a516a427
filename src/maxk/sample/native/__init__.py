"""maxk's own inference engine on transformers. Experimental."""
