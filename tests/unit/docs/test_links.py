import re
from collections import Counter

LINK = re.compile(r"\]\(([^)\s]+)\)")
FENCED = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
ELSEWHERE = re.compile(r"[a-z][a-z0-9+.-]*:")


def prose(path):
    return FENCED.sub("", path.read_text(encoding="utf-8"))


def anchors(path):
    """The fragments that a page's headings can be reached by, spelled as GitHub spells them."""
    seen = Counter()
    found = set()
    for heading in HEADING.findall(prose(path)):
        shown = LINK.sub("]", heading)
        slug = "".join(c for c in shown.lower() if c.isalnum() or c in " -_").replace(" ", "-")
        found.add(f"{slug}-{seen[slug]}" if seen[slug] else slug)
        seen[slug] += 1
    return found


def relative_links(page):
    return [link for link in LINK.findall(prose(page)) if not ELSEWHERE.match(link)]


def test_every_relative_link_leads_somewhere(page):
    missing = []
    for link in relative_links(page):
        place, _, fragment = link.partition("#")
        target = page.parent / place if place else page
        if not target.exists() or (fragment and fragment not in anchors(target)):
            missing.append(link)
    assert missing == []


def test_every_page_can_be_reached_from_the_readme(pages, root):
    reached = {root / "README.md"}
    waiting = list(reached)
    while waiting:
        page = waiting.pop()
        for link in relative_links(page):
            target = (page.parent / link.partition("#")[0]).resolve()
            if target.suffix == ".md" and target.exists() and target not in reached:
                reached.add(target)
                waiting.append(target)
    assert set(pages) - reached == set()


def test_the_pictures_of_the_readme_describe_themselves(root):
    pictures = re.findall(r"!\[([^\]]*)\]\(([^)]+)\)", (root / "README.md").read_text(encoding="utf-8"))
    assert pictures
    for words, place in pictures:
        assert words
        assert "<title" in (root / place).read_text(encoding="utf-8")
