"""A bitmap beside each stored drawing, for viewers that show no SVG.

JupyterLab shows an untrusted notebook's bitmaps and none of its drawings. A bitmap is made from
the stored SVG with matplotlib's own fonts, so it is the same on any machine; nothing compares it.
"""

import base64
import io
from functools import cache
from pathlib import Path

SVG, PNG = "image/svg+xml", "image/png"
COLORS = 32
LARGEST = 40_000                            # bytes
FONTS = ("DejaVuSans", "DejaVuSans-Bold", "DejaVuSans-Oblique", "DejaVuSansMono",
         "DejaVuSansMono-Bold")  # fmt: skip


@cache
def fonts() -> list[str]:
    import matplotlib

    folder = Path(matplotlib.get_data_path(), "fonts", "ttf")
    return [str(folder / f"{name}.ttf") for name in FONTS]


def bitmap(svg: str) -> bytes:
    """The drawing as a PNG of its own size, on white, in few colours."""
    import resvg_py
    from PIL import Image

    drawn = resvg_py.svg_to_bytes(
        svg_string=svg, background="#ffffff", skip_system_fonts=True, font_files=fonts(),
        font_family="DejaVu Sans", sans_serif_family="DejaVu Sans",
        monospace_family="DejaVu Sans Mono",
    )  # fmt: skip
    out = io.BytesIO()
    image = Image.open(io.BytesIO(bytes(drawn))).convert("RGB").quantize(COLORS, dither=0)
    image.save(out, "PNG", optimize=True)
    return out.getvalue()


def add(cells) -> None:
    """Beside every drawing that has none; a run makes every drawing new."""
    for out in (out for cell in cells for out in cell.get("outputs", [])):
        data = out.get("data", {})
        if SVG in data and PNG not in data:
            data[PNG] = base64.b64encode(bitmap("".join(data[SVG]))).decode() + "\n"


def fault(data) -> str:
    """What is wrong with the bitmap of an output, if anything is."""
    if PNG in data and SVG not in data:
        return "a bitmap without its drawing, which nbval never compares"
    size = len(data.get(PNG, "")) * 3 // 4
    return f"a bitmap of {size} bytes, at most {LARGEST}" if size > LARGEST else ""
