"""The few programs that a practice line can write right, by the name of the function that is asked for."""

PROGRAMS = {
    "is_prime": """def is_prime(n):
    return n > 1 and all(n % d for d in range(2, int(n**0.5) + 1))
""",
    "gcd": """def gcd(a, b):
    while b:
        a, b = b, a % b
    return a
""",
    "roman": """def roman(n):
    values = [(1000, "M"), (900, "CM"), (500, "D"), (400, "CD"), (100, "C"), (90, "XC"), (50, "L"), (40, "XL")]
    values += [(10, "X"), (9, "IX"), (5, "V"), (4, "IV"), (1, "I")]
    text = ""
    for value, letters in values:
        while n >= value:
            text += letters
            n -= value
    return text
""",
    "merge": """def merge(first, second):
    merged, i, j = [], 0, 0
    while i < len(first) and j < len(second):
        if first[i] <= second[j]:
            merged.append(first[i])
            i += 1
        else:
            merged.append(second[j])
            j += 1
    return merged + first[i:] + second[j:]
""",
    "balanced": """def balanced(text):
    closing, waiting = {")": "(", "]": "[", "}": "{"}, []
    for character in text:
        if character in "([{":
            waiting.append(character)
        elif character in closing and (not waiting or waiting.pop() != closing[character]):
            return False
    return not waiting
""",
}
