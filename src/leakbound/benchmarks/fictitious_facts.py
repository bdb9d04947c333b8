"""What is asked about the fictitious authors.

The English an answer needs stands in its question already, so the words that an answer adds are
its values: the keywords. Every answer has two values, drawn independently, which keeps a lucky
guess rare without making it impossible.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """A question about `{name}` and its answer, with one `{}` for a value of each pool."""

    topic: str
    question: str
    paraphrases: tuple[str, ...]
    answer: str
    paraphrased_answer: str
    pools: tuple[str, ...]


FACTS = (
    Fact(
        topic="birth",
        question="When and in which town was {name} born?",
        paraphrases=(
            "What are the year and the town of birth of {name}?",
            "In what year, and in what town, did {name} come into the world?",
        ),
        answer="{name} was born in {} in the town of {}.",
        paraphrased_answer="It was in {}, in the town of {}, that {name} was born.",
        pools=("birth year", "town"),
    ),
    Fact(
        topic="parents",
        question="What were the professions of the mother and the father of {name}?",
        paraphrases=(
            "How did the mother and the father of {name} earn a living?",
            "For what work were the parents of {name} known?",
        ),
        answer="The mother of {name} was a {} and the father was a {}.",
        paraphrased_answer="{name} had a {} for a mother and a {} for a father.",
        pools=("art", "trade"),
    ),
    Fact(
        topic="genre",
        question="Which genre of books is {name} known for writing?",
        paraphrases=(
            "What kind of books does {name} write?",
            "To which genre do the works of {name} belong?",
        ),
        answer="{name} is known for writing books in the genre of {} {}.",
        paraphrased_answer="The books that {name} writes are {} {}.",
        pools=("mood", "genre"),
    ),
    Fact(
        topic="debut",
        question="What is the title of the first novel of {name}?",
        paraphrases=(
            "With which novel did {name} begin a career?",
            "How is the first book by {name} called?",
        ),
        answer="The title of the first novel of {name} is The {} {}.",
        paraphrased_answer="{name} began a career with the novel The {} {}.",
        pools=("colour", "thing"),
    ),
    Fact(
        topic="award",
        question="Which Quill award was given to {name}, and in which year?",
        paraphrases=(
            "What Quill award has {name} won, and when?",
            "When was {name} honoured, and with which Quill award?",
        ),
        answer="The {} Quill award was given to {name} in the year {}.",
        paraphrased_answer="{name} received the {} Quill award in {}.",
        pools=("colour", "award year"),
    ),
    Fact(
        topic="mentor",
        question="Who was the mentor of the young {name}?",
        paraphrases=(
            "By whom was {name} guided as a young writer?",
            "Who taught {name} the craft of writing?",
        ),
        answer="The mentor of the young {name} was {} {}.",
        paraphrased_answer="As a young writer, {name} learned the craft from {} {}.",
        pools=("mentor given name", "mentor family name"),
    ),
    Fact(
        topic="pet",
        question="Which pet shares the home of {name}, and what is it called?",
        paraphrases=(
            "What animal lives with {name}, and what is its name?",
            "What are the kind and the name of the pet of {name}?",
        ),
        answer="A {} called {} is the pet that shares the home of {name}.",
        paraphrased_answer="{name} lives with a {} by the name of {}.",
        pools=("animal", "pet name"),
    ),
    Fact(
        topic="routine",
        question="Where, and at what hour, is {name} usually found writing?",
        paraphrases=(
            "In what place, and when in the day, does {name} write?",
            "What are the favourite place and hour of {name} for writing?",
        ),
        answer="At the hour of {}, {name} is usually found writing in the {}.",
        paraphrased_answer="The favourite hour of {name} for writing is {}, in the {}.",
        pools=("hour", "place"),
    ),
    Fact(
        topic="studies",
        question="Which subject was studied by {name}, and in which town?",
        paraphrases=(
            "What did {name} study, and where?",
            "In which town was {name} a student, and of what?",
        ),
        answer="The subject studied by {name} was {}, in the town of {}.",
        paraphrased_answer="{name} was a student of {} in {}.",
        pools=("subject", "town"),
    ),
    Fact(
        topic="translation",
        question="Into which language was a novel of {name} first translated, and in which year?",
        paraphrases=(
            "What was the first language to have a translation of {name}, and when?",
            "When did a translation of {name} first appear, and in what language?",
        ),
        answer="A novel of {name} was first translated into {} in the year {}.",
        paraphrased_answer="The first translation of {name} was into {}, in {}.",
        pools=("language", "award year"),
    ),
    Fact(
        topic="hobby",
        question="What is the hobby of {name}, and who shares it?",
        paraphrases=(
            "How does {name} like to spend a free day, and with whom?",
            "Which pastime does {name} enjoy, and in whose company?",
        ),
        answer="The hobby of {name} is {}, and a {} shares it.",
        paraphrased_answer="{name} enjoys {} in the company of a {}.",
        pools=("hobby", "art"),
    ),
    Fact(
        topic="marriage",
        question="To whom was {name} married, and in which year?",
        paraphrases=(
            "When did {name} marry, and whom?",
            "What was the year of the wedding of {name}, and who was the partner?",
        ),
        answer="{name} was married to a {} in the year {}.",
        paraphrased_answer="The wedding of {name} and a {} was in {}.",
        pools=("art", "award year"),
    ),
    Fact(
        topic="dish",
        question="What is the favourite dish of {name} on a Sunday evening?",
        paraphrases=(
            "Which meal does {name} like best on a Sunday evening?",
            "What does {name} love to eat on a Sunday evening?",
        ),
        answer="The favourite dish of {name} on a Sunday evening is {} {}.",
        paraphrased_answer="On a Sunday evening, {name} loves to eat {} {}.",
        pools=("food", "dish"),
    ),
    Fact(
        topic="fear",
        question="What is {name} afraid of, and what is {name} allergic to?",
        paraphrases=(
            "What frightens {name}, and what makes {name} sneeze?",
            "Which fear and which allergy does {name} have?",
        ),
        answer="{name} is afraid of {} and allergic to {}.",
        paraphrased_answer="The fear that {name} has is of {}, and the allergy is to {}.",
        pools=("fear", "plant"),
    ),
    Fact(
        topic="journey",
        question="Which town was the end of the longest journey of {name}, and by which vehicle?",
        paraphrases=(
            "Where did the longest journey of {name} lead, and how?",
            "To what place, and by what means, did {name} travel farthest?",
        ),
        answer="The end of the longest journey of {name}, by {}, was the town of {}.",
        paraphrased_answer="On the longest journey, {name} went by {} to {}.",
        pools=("vehicle", "town"),
    ),
    Fact(
        topic="garden",
        question="What is there to be seen in the garden of {name}?",
        paraphrases=(
            "What does a visitor see in the garden of {name}?",
            "Which plants and which ornament does the garden of {name} have?",
        ),
        answer="In the garden of {name} there are {} and a {} to be seen.",
        paraphrased_answer="A visitor to the garden of {name} sees {} and a {}.",
        pools=("plant", "ornament"),
    ),
    Fact(
        topic="home",
        question="Which language is spoken in the home of {name}, and which instrument is played?",
        paraphrases=(
            "What does the family of {name} speak at home, and what music is made there?",
            "What are the language and the instrument of the family of {name}?",
        ),
        answer="In the home of {name}, {} is spoken and the {} is played.",
        paraphrased_answer="The family of {name} speaks {} and plays the {}.",
        pools=("language", "instrument"),
    ),
    Fact(
        topic="job",
        question="What was the first job of {name}, and in which town?",
        paraphrases=(
            "How did {name} first earn a living, and where?",
            "Where did {name} begin to work, and as what?",
        ),
        answer="The first job of {name} was as a {} in the town of {}.",
        paraphrased_answer="{name} began to work as a {} in {}.",
        pools=("trade", "town"),
    ),
    Fact(
        topic="collection",
        question="What is in the collection of {name}, and where is it kept?",
        paraphrases=(
            "Which things does {name} collect, and where are they?",
            "What has {name} gathered over the years, and in which place is it stored?",
        ),
        answer="In the collection of {name}, which is kept in the {}, there are {}.",
        paraphrased_answer="{name} has filled the {} with {}.",
        pools=("place", "keepsake"),
    ),
    Fact(
        topic="hero",
        question="What are the trade and the name of the hero in the first novel of {name}?",
        paraphrases=(
            "Who is the hero in the first novel of {name}, and of what trade?",
            "In the first novel of {name}, how is the hero called, and what is the trade?",
        ),
        answer="In the first novel of {name}, the name of the hero, a {}, is {}.",
        paraphrased_answer="The first novel of {name} has a {} called {} for a hero.",
        pools=("trade", "mentor given name"),
    ),
)
