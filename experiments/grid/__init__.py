"""The paper's grid on a small code model: cells, the script that runs them, and their results."""
