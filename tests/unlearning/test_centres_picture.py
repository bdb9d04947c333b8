"""The picture of contrast centres, read as the XML that it is."""

from __future__ import annotations

import xml.etree.ElementTree as ET

import numpy as np
import pytest

from leakbound.unlearning.centres import Centres, contrast_centres
from leakbound.unlearning.centres_picture import centres_picture

SVG = "{http://www.w3.org/2000/svg}"


def clustered(number: int) -> Centres:
    chance = np.random.default_rng(number)
    texts = (f"<who> & {number}", *(f"text {i}" for i in range(7)))
    return contrast_centres(texts, chance.normal(size=(8, 3)) + np.arange(8)[:, None] // 4 * 50)


def test_the_picture_shows_six_questions_with_their_candidates() -> None:
    shown = {f"q<{i}>": clustered(i) for i in range(8)}
    root = ET.fromstring(centres_picture(shown))
    assert root.tag == f"{SVG}svg"
    panels = root.findall(f"{SVG}g")
    assert len(panels) == 6
    assert [panel.find(f"{SVG}text").text for panel in panels] == [f"q<{i}>" for i in range(6)]  # type: ignore[union-attr]
    for panel, centres in zip(panels, shown.values(), strict=False):
        points = panel.findall(f"{SVG}g")
        titles = {point.find(f"{SVG}title").text: point for point in points}  # type: ignore[union-attr]
        assert set(titles) == set(centres.texts)
        ringed = {text for text, point in titles.items() if point.find(f"{SVG}circle[@fill='none']")
                  is not None}  # fmt: skip
        assert ringed == set(centres.centres)
        assert [t for t, point in titles.items() if point.find(f"{SVG}rect") is not None] == [
            centres.texts[0]
        ]
        colours = {text: titles[text][1].get("fill") for text in centres.texts}
        assert [
            colours[text] == colours[centres.texts[0]] for text in centres.texts
        ] == [each == 0 for each in centres.component]  # fmt: skip
    width, height = (float(root.get(side, "")) for side in ("width", "height"))
    places = [panel.get("transform", "") for panel in panels]
    assert len(set(places)) == 6
    for place in places:
        x, y = map(float, place.removeprefix("translate(").removesuffix(")").split())
        assert x + 230 <= width
        assert y + 240 <= height


def test_a_panel_keeps_distances_and_stays_within_its_frame() -> None:
    coordinates = ((0.0, 0.0), (30.0, 0.0), (30.0, 10.0), (0.0, 10.0))
    found = Centres(("a", "b", "c", "d"), (0,), (0, 0, 0, 0), coordinates)
    (panel,) = ET.fromstring(centres_picture({"q": found})).findall(f"{SVG}g")
    circles = {point[0].text: point[1] for point in panel.findall(f"{SVG}g")}
    b, c, d = (
        [float(circles[name].get(side, "")) for side in ("cx", "cy")] for name in ("b", "c", "d")
    )
    assert b[0] == c[0]
    assert c[1] == d[1] < b[1]  # the larger coordinate is further up
    assert c[0] - d[0] == pytest.approx(3 * (b[1] - c[1]), abs=0.3)
    frame = panel.find(f"{SVG}rect")
    assert frame is not None
    left, side = float(frame.get("x", "")), float(frame.get("width", ""))
    assert left < d[0] < c[0] < left + side


def test_equal_points_have_a_picture_too() -> None:
    same = Centres(("a", "b", "c", "d"), (0,), (0,) * 4, ((0.0, 0.0),) * 4)
    picture = centres_picture({"q": same})
    assert ET.fromstring(picture).tag == f"{SVG}svg"
    assert "nan" not in picture
