"""The grammar of English questions, for rewritings made by rule.

It is fitted to short questions about people and their works, as the fictitious benchmark, TOFU
and questions on the Harry Potter books ask them: its lists of verbs, nouns and openings are those
of these questions. Another English question has fewer forms, since a form whose pattern it does
not surely match is left out. A question in another language is left alone: `is_english` says how
it is told, and no English sentence is put around it.
"""
