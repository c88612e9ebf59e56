"""The built-in English-French corpus: any number of sentence pairs with gold word alignments.

A synchronous grammar writes both sides of a pair together. So both sides are grammatical, the
alignment is known, and the French is a function of the English. A model must learn:

    word order     the European Economic Area · la zone économique européenne; energy market ·
                   marché de l' énergie; object clitics: sees him · le voit; genitives: France 's
                   laws · les lois de la France; times: adopts the
                   law today · adopte aujourd' hui la loi
    agreement      gender and number of determiners, adjectives, participles (the law that he
                   adopted · la loi qu' il a adoptée); person and number of verbs
    spelling       elision (l', d', qu', n') and contraction (du, des, au, aux), cet, nouvel, mon
    one to many    does not see · ne voit pas; saw · a vu; never · ne ... jamais; and "a" under
                   negation: does not see a house · ne voit pas de maison
    length         relative clauses, coordination, of-phrases: 3 tokens and more
    others         questions, passives, infinitives, numbers, times, names with and without article

Files: en-fr.txt and `function_words` contain the words; `wordfile`, `wordreader` and `lexicon` read
them; `inflection` has their forms and spelling; `synchronous` writes both sides at once;
`derivation`, `predicates` and `proper_names` have the rules; `generation` draws the pairs.
docs/grammar.md explains how to extend the grammar.

Sure links join a word and its translation, also for function words. A contracted article has the
sure links of both its parts ("of the" · "du"). A link is only possible if a word belongs to a
translation but does not translate the other word itself. These are ne beside pas, jamais and plus;
the auxiliaries of a tense (a vu, will see, did); articles and prepositions that the other language
leaves out (France · la France, energy · de l' énergie, to him · lui); and "and" in numbers. Every
token has at least one possible link.
"""

from bahdanau_jax.data.sources.grammar.generation import (
    SPLITS,
    AlignedPair,
    generate,
    split_of,
    text,
    word_for_word,
)

__all__ = ["SPLITS", "AlignedPair", "generate", "split_of", "text", "word_for_word"]
