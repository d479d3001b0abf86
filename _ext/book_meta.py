"""What a page says of itself elsewhere, and a page for wrong addresses.

The site's public address is html.baseurl in _config.yml, else where GitHub Pages puts the
repository of repository_url. While there is none, a page has a description, and nothing that needs
an address; with it, a preview picture too.
"""

import re
from pathlib import Path
from urllib.parse import urlsplit

PICTURE = "book/figures/page.png"
LOST = """<h1>There is no such page</h1>
<p>The address may have changed. The <a href="book/index.html">first page of the book</a> leads to
every chapter, and the search finds a chapter by its subject.</p>"""
OPEN_GRAPH = re.compile(r'<meta (?:property="og:|name="twitter:)[^>]*/>\n?')


def address(config) -> str:
    """Where the site will be, ending in a slash; empty while nobody has said."""
    url = (config.html_theme_options.get("repository_url") or "").rstrip("/")
    github = re.fullmatch(r"https://github\.com/([\w.-]+)/([\w.-]+)", url)
    pages = f"https://{github[1].lower()}.github.io/{github[2]}" if github else ""
    site = (config.html_baseurl or pages).rstrip("/")
    return f"{site}/" if site else ""


def prepare(app, config) -> None:
    config.ogp_site_url = address(config)
    config.ogp_site_name = config.html_title
    config.ogp_image, config.ogp_image_alt = Path(PICTURE).name, "A page of the book."
    config.ogp_enable_meta_description = True
    config.html_extra_path = [*config.html_extra_path, PICTURE]
    config.notfound_urls_prefix = urlsplit(config.ogp_site_url).path or "/"
    config.notfound_context = {"title": "There is no such page", "body": LOST}


def only_description(app, pagename, templatename, context, doctree) -> None:
    if not app.config.ogp_site_url:
        context["metatags"] = OPEN_GRAPH.sub("", context.get("metatags", ""))


def setup(app):
    app.setup_extension("sphinxext.opengraph")
    app.setup_extension("notfound.extension")
    app.connect("config-inited", prepare, priority=50)
    app.connect("html-page-context", only_description, priority=900)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
