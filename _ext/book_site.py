"""The site: nothing from elsewhere, one place for the repository's address, small repairs."""

import importlib
import inspect
import re
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent


def repository(app, config):
    """What follows from ``repository_url`` in _config.yml; nothing names it while it is empty."""
    options = config.html_theme_options
    url = (options.get("repository_url") or "").rstrip("/")
    if not url:
        for key in ("repository_url", "repository_branch", "launch_buttons"):
            options.pop(key, None)
        app.setup_extension("sphinx.ext.viewcode")
        return
    options.update(use_repository_button=True, use_issues_button=True, use_source_button=True)
    options["launch_buttons"] = {
        "colab_url": "https://colab.research.google.com",
        "binderhub_url": "https://mybinder.org",
        "notebook_interface": "jupyterlab",
    }
    branch = options.get("repository_branch", "main")
    config.linkcode_resolve = lambda domain, info: source_line(domain, info, f"{url}/blob/{branch}")
    app.setup_extension("sphinx.ext.linkcode")


def source_line(domain: str, info: dict, blob: str) -> str | None:
    """Where the repository's site shows an object's source."""
    if domain != "py" or not info["module"]:
        return None
    try:
        thing = importlib.import_module(info["module"])
        for part in info["fullname"].split("."):
            thing = inspect.getattr_static(thing, part)
        thing = inspect.unwrap(getattr(thing, "fget", None) or thing)
        path = Path(inspect.getsourcefile(thing)).resolve().relative_to(ROOT)
        lines, start = inspect.getsourcelines(thing)
    except (AttributeError, TypeError, ValueError, OSError):
        return None
    return f"{blob}/{path.as_posix()}#L{start}-L{start + len(lines) - 1}"


def drop_thebe(app, pagename, templatename, context, doctree):
    """sphinx-thebe is unused here, and its script declares the same constants twice."""

    def wanted(file) -> bool:
        text = str(getattr(file, "filename", "")) + str(getattr(file, "attributes", {}).get("body"))
        return "thebe" not in text.lower()

    for key in ("script_files", "css_files"):
        context[key][:] = [file for file in context[key] if wanted(file)]


def drop_icon_script(app, error):
    """Icons come from a web font; Font Awesome's 1.5 MB script is not needed."""
    if error is None and app.builder.format == "html":
        for file in Path(app.outdir).glob("_static/vendor/fontawesome/*/js/all.min.js"):
            file.write_text("")


PRELOADED = re.compile(r'<link rel="preload" as="font"[^>]*/fa-(?:brands|regular)-[^>]*>\n?')


def drop_early_fonts(app, error):
    """The theme fetches three icon fonts before the text; two of them hardly any page shows."""
    if error is None and app.builder.format == "html":
        for file in Path(app.outdir).rglob("*.html"):
            html = file.read_text("utf8")
            if PRELOADED.search(html):
                file.write_text(PRELOADED.sub("", html), "utf8")


def setup(app):
    app.connect("config-inited", repository, priority=100)
    app.connect("html-page-context", drop_thebe, priority=900)
    app.connect("build-finished", drop_icon_script)
    app.connect("build-finished", drop_early_fonts)
    app.add_js_file(None, body=(HERE / "book_page.js").read_text("utf8"), priority=50)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
