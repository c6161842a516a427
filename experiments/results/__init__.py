"""The results that everything published rests on: four files, and what is made of them."""
