"""The paper's figures and further questions, one module each."""
