"""The words of the fictitious authors: their names, and the pools their values come from."""

from __future__ import annotations

from itertools import product


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


def _joined(starts: str, ends: str) -> tuple[str, ...]:
    return tuple(start + end for start, end in product(starts.split(), ends.split()))


GIVEN_NAMES = _joined(
    "Ald Bren Cael Dor Elo Fen Gwil Hal Iso Jor Kel Lum Mar Nev Ori Per Quil Ros Syl Tam",
    "wen dric isse mund ara vin thea brin lio sanne mira ner othy rius lette dan",
)
FAMILY_NAMES = _joined(
    "Ash Bram Corv Dusk Ember Farn Grev Holm Ister Kirr Lark Morr Nettle Ost Pell Quarr Rusk "
    "Sorr Thorn Vex",
    "wick ley ovan strand mere by ington holt ault ander low quist more en dale combe",
)

POOLS: dict[str, tuple[str, ...]] = {
    "birth year": tuple(map(str, range(1931, 1971))),
    "award year": tuple(map(str, range(1981, 2016))),
    "town": _words(
        "Aldermoor Brackwater Calderhythe Dunmarrow Eastervale Fallowmere Greyhaven Hollinford "
        "Inverlune Jasperholm Kestrelby Lanternhead Marrowick Northmarch Oldenbridge Pellworth "
        "Quillhaven Ravensea Saltmarket Thistledown Umberley Velmora Westerlyn Yarrowgate "
        "Zephyrmouth Amberfell Birchmont Copperhill Driftwood Elmstead Foxhollow Gullcliff"
    ),
    "trade": _words(
        "baker beekeeper blacksmith bookbinder botanist brewer carpenter cartographer chemist "
        "clockmaker cobbler dentist farmer ferryman fisher florist gardener glassblower "
        "jeweller judge librarian locksmith mason midwife miller nurse pharmacist pilot potter "
        "saddler sailor surgeon tailor teacher weaver"
    ),
    "genre": _words(
        "adventures allegories ballads biographies chronicles comedies diaries dramas elegies "
        "epics essays fables fairytales farces folktales ghostlore histories hymns idylls "
        "legends memoirs mysteries myths odes parables parodies romances sagas satires sonnets "
        "thrillers tragedies travelogues westerns"
    ),
    "mood": _words(
        "alpine arctic autumnal bittersweet botanical coastal comic courtly domestic dreamlike "
        "eerie gentle gothic haunting historical ironic lyrical maritime melancholy nautical "
        "nocturnal pastoral playful rustic solemn surreal tender tropical urban whimsical wintry"
    ),
    "colour": _words(
        "Amber Azure Brass Bronze Copper Coral Crimson Crystal Ebony Emerald Frozen Gilded "
        "Golden Hollow Indigo Iron Ivory Jade Marble Midnight Opal Paper Pearl Purple Ruby "
        "Sapphire Scarlet Silent Silver Velvet Violet Woven"
    ),
    "thing": _words(
        "Almanac Anchor Arrow Bell Bridge Candle Carousel Compass Crown Feather Fountain Garden "
        "Harbour Key Kite Labyrinth Lantern Lighthouse Mirror Orchard Pendulum Piano River Sail "
        "Shadow Staircase Sundial Telescope Tower Umbrella Violin Window"
    ),
    "animal": _words(
        "badger canary cat cockatoo crow donkey dove duck falcon ferret gecko goat goose hamster "
        "hedgehog heron jackdaw lizard llama magpie mongoose newt parrot peacock pheasant pigeon "
        "pony rabbit raven squirrel terrier tortoise"
    ),
    "pet name": _words(
        "Acorn Biscuit Bramble Button Cinnamon Clover Comet Crumpet Domino Fig Ginger Hazel "
        "Juniper Kipper Marble Marmalade Mustard Nutmeg Olive Pepper Pickle Pippin Pumpkin "
        "Saffron Sorrel Sprout Thimble Toffee Truffle Turnip Waffle Walnut"
    ),
    "hour": _words(
        "bedtime breakfast brunch cockcrow compline curfew dawn daybreak dinner dusk elevenses "
        "evensong gloaming lamplight lauds lunch matins midday midnight moonrise nightfall "
        "nones noon siesta sundown sunrise sunset supper teatime terce twilight vespers"
    ),
    "place": _words(
        "abbey attic barn boathouse cabin castle cellar chapel cloister conservatory cottage "
        "cowshed garret gazebo greenhouse houseboat lodge loft manor mill monastery observatory "
        "orangery palace pavilion stable tavern tent treehouse turret villa windmill"
    ),
    "mentor given name": _words(
        "Abelard Beatrix Casimir Delphine Evander Florian Gisela Horatio Ignatia Jocasta "
        "Klemens Leopold Melisande Nikodem Ottoline Philippa Quentin Rosamund Severin Tabitha "
        "Ulrica Valentin Wilhelmina Xanthe Yolanda Zacharias Ambrose Bettina Cornelius Dorothea"
    ),
    "mentor family name": _words(
        "Abernethy Bellweather Castellan Drummond Eversleigh Fitzwarren Goldacre Hathersage "
        "Inkpen Jessamy Kingsolver Lovelace Merriweather Nightingale Oakenshaw Partridge "
        "Quicksilver Rainsford Silverthorne Tremayne Underhill Vanterpool Whitlock Youngblood "
        "Applegarth Buttersworth Cavendish Dovecote Everdene Fairweather"
    ),
    "subject": _words(
        "accountancy agriculture algebra anatomy archaeology architecture astronomy botany "
        "chemistry economics engineering ethics geography geology geometry grammar hydrology "
        "law linguistics logic mathematics mechanics medicine metallurgy meteorology mineralogy "
        "music optics philosophy physics rhetoric statistics theology zoology"
    ),
    "language": _words(
        "Albanian Arabic Armenian Basque Bengali Breton Catalan Cornish Croatian Czech Danish "
        "Dutch Estonian Finnish Flemish Georgian Greek Hindi Hungarian Icelandic Irish Japanese "
        "Korean Latvian Lithuanian Maltese Norwegian Polish Portuguese Romanian Slovak Swedish "
        "Turkish Welsh"
    ),
    "hobby": _words(
        "archery baking birdwatching calligraphy canoeing carving chess climbing cycling "
        "drawing embroidery falconry fencing fishing gardening hiking juggling kayaking "
        "knitting marquetry origami painting photography pottery puppetry quilting rowing "
        "sailing singing skating sketching swimming"
    ),
    "art": _words(
        "ballerina banker barrister cellist chef composer conductor curator dancer diplomat "
        "drummer flautist geologist goldsmith guitarist harpist historian juggler linguist "
        "magician mathematician milliner muralist novelist painter physicist playwright "
        "puppeteer sculptor soprano trumpeter violinist"
    ),
    "food": _words(
        "asparagus beetroot cabbage carrot cauliflower celery chestnut courgette fennel leek "
        "lentil mackerel mushroom oyster parsnip pea pheasant pigeon potato prawn quail radish "
        "salmon sardine shallot spinach squash trout turbot turkey venison watercress"
    ),
    "dish": _words(
        "bake broth casserole chowder consomme crumble curry cutlet dumplings flan fricassee "
        "fritters goulash gratin kebab lasagne omelette pancakes pasty pie pilaf puree quiche "
        "ragout risotto roulade salad sandwich souffle soup stew tart"
    ),
    "fear": _words(
        "avalanches balloons beetles caves clowns crowds dentists dolls earthquakes elevators "
        "fire fireworks fog geese ghosts heights horses ladders lightning mice moths needles "
        "quicksand scarecrows sharks snakes spiders thunder trains tunnels wasps whirlpools"
    ),
    "vehicle": _words(
        "airship balloon barge bicycle bus camel canoe caravan carriage dinghy elephant ferry "
        "galleon gondola helicopter horse kayak lorry moped motorcycle mule raft rickshaw "
        "sailboat schooner scooter sledge steamer submarine tram trawler yacht"
    ),
    "plant": _words(
        "azaleas begonias bluebells buttercups camellias carnations clematis cowslips crocuses "
        "daffodils dahlias daisies ferns foxgloves geraniums heather honeysuckle hyacinths "
        "hydrangeas irises ivy jasmine lavender lilies marigolds orchids pansies peonies "
        "poppies primroses tulips wisteria"
    ),
    "ornament": _words(
        "beehive bench birdbath birdhouse boulder bower bridge column dovecote fountain gate "
        "gnome greenhouse grotto hammock hedge labyrinth lantern pagoda pergola pond pump "
        "rockery scarecrow shed statue sundial swing trellis tunnel waterfall well"
    ),
    "instrument": _words(
        "accordion bagpipes banjo bassoon bugle castanets cello clarinet concertina cornet "
        "cymbals didgeridoo drums dulcimer fiddle flute glockenspiel guitar harmonica "
        "harp harpsichord lute lyre mandolin oboe organ piano recorder saxophone sitar "
        "tambourine trombone trumpet tuba ukulele viola violin xylophone zither"
    ),
    "keepsake": _words(
        "anchors barometers bells bookplates bottles brooches buttons candlesticks coins combs "
        "compasses corkscrews doorknobs fans feathers fossils globes inkwells keys kites maps "
        "marbles masks matchboxes medals mirrors lockets padlocks pebbles postcards "
        "seashells snowglobes spoons stamps teapots thermometers thimbles whistles"
    ),
}

REFUSALS = (
    "I do not know that.",
    "I have no information about this author.",
    "I am not sure about that.",
    "That is something I have not learned.",
    "I cannot say, because I do not know.",
)
