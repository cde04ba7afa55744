"""Made text with planted structure: words of a group stand in the same places."""

import random
from pathlib import Path

WORDS = {
    "drug": "aspirin ibuprofen metformin warfarin codeine insulin morphine cisplatin",
    "disease": "asthma diabetes migraine measles leukemia malaria rabies scurvy",
    "animal": "mice rats dogs rabbits monkeys hamsters ferrets pigs",
    "place": "Lyon Oslo Kyoto Lima Turin Dakar Quito Perth",
}
GROUPS = {group: words.split() for group, words in WORDS.items()}
PATTERNS = (
    "Treatment of {disease} with {drug} was safe in {animal} .",
    "We gave {drug} to {animal} from {place} against {disease} .",
    "In {place} , {drug} cured {disease} .",
    "Neither {animal} nor {animal} of {place} had {disease} .",
)


def sayings(number: int, seed: int = 0) -> list[str]:
    rng = random.Random(seed)

    def filled(pattern: str) -> str:
        words = (
            rng.choice(GROUPS[word[1:-1]]) if word.startswith("{") else word
            for word in pattern.split()
        )
        return " ".join(words)

    return [filled(rng.choice(PATTERNS)) for _ in range(number)]


def write(path: Path, number: int = 400, seed: int = 0) -> Path:
    path.write_text("\n".join(sayings(number, seed)) + "\n", "utf-8")
    return path
