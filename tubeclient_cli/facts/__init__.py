"""What commands and pages show: each number is made by one function. Knows no terminal."""
