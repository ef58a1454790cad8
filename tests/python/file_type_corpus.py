#!/usr/bin/env python3
"""Build the corpus of tests/fixtures/file_type: small files of many kinds, and files that are hard on a reader.

    file_type_corpus.py OUTDIR

Everything is written here or made by Python's standard library from fixed values: two runs of one Python version give
the same bytes. What libraries of other versions compress differently stays the same kind of file, but run
file_type_truth.py again after this script.
"""
import bz2
import gzip
import io
import lzma
import marshal
import pathlib
import pickle
import random
import sqlite3
import struct
import sys
import tarfile
import tempfile
import wave
import zipfile
import zlib

from file_type_texts import TEXTS

SENTENCES = "".join(f"Line {i}: the tide table says {i * 37 % 240} cm at {i % 24:02}:00.\n" for i in range(60)).encode()
ZIP_TIME = (2026, 1, 5, 8, 0, 0)


def png(width, height):
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = b"".join(b"\0" + bytes((x * 4 % 256, y * 4 % 256, 128)[c] for x in range(width) for c in range(3)) for y in range(height))
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def gif(width, height):
    pixels = [(x + y) % 4 for y in range(height) for x in range(width)]
    # Codes of 3 bits with a clear code in front of every pair: larger than need be, and a valid GIF.
    codes = [code for i in range(0, len(pixels), 2) for code in (4, *pixels[i : i + 2])] + [5]
    bits = "".join(f"{code:03b}"[::-1] for code in codes)
    data = bytes(int(bits[i : i + 8][::-1], 2) for i in range(0, len(bits), 8))
    blocks = b"".join(bytes([len(data[i : i + 255])]) + data[i : i + 255] for i in range(0, len(data), 255))
    palette = bytes([0, 0, 0, 255, 0, 0, 0, 255, 0, 255, 255, 255])
    screen = struct.pack("<HHBBB", width, height, 0x91, 0, 0)
    return b"GIF89a" + screen + palette + b"," + struct.pack("<HHHHB", 0, 0, width, height, 0) + b"\x02" + blocks + b"\0;"


def bmp(width, height):
    pixels = b"".join(bytes((x * 3 % 256, y * 5 % 256, 90)) for y in range(height) for x in range(width))
    header = struct.pack("<IiiHHIIiiII", 40, width, height, 1, 24, 0, len(pixels), 2835, 2835, 0, 0)
    return b"BM" + struct.pack("<IHHI", 54 + len(pixels), 0, 0, 54) + header + pixels


def ico():
    image = png(16, 16)
    return struct.pack("<HHHBBBBHHII", 0, 1, 1, 16, 16, 0, 0, 1, 32, len(image), 22) + image


def tiff(width, height):
    pixels = bytes((x ^ y) & 255 for y in range(height) for x in range(width))
    entries = [(256, 3, 1, width), (257, 3, 1, height), (258, 3, 1, 8), (259, 3, 1, 1), (262, 3, 1, 1), (273, 4, 1, 0),
               (277, 3, 1, 1), (278, 3, 1, height), (279, 4, 1, len(pixels))]
    offset = 8 + 2 + 12 * len(entries) + 4
    directory = b"".join(struct.pack("<HHII", tag, kind, count, offset if tag == 273 else value) for tag, kind, count, value in entries)
    return b"II*\0" + struct.pack("<IH", 8, len(entries)) + directory + struct.pack("<I", 0) + pixels


def wav():
    out = io.BytesIO()
    with wave.open(out, "wb") as sound:
        sound.setnchannels(1)
        sound.setsampwidth(2)
        sound.setframerate(8000)
        sound.writeframes(b"".join(struct.pack("<h", (i * i * 13) % 20000 - 10000) for i in range(2000)))
    return out.getvalue()


def midi():
    def event(delta, *data):
        return bytes([delta, *data])

    notes = b"".join(event(0, 0x90, 60 + n % 12, 64) + event(96, 0x80, 60 + n % 12, 64) for n in range(40))
    track = event(0, 0xFF, 0x51, 3, 7, 0xA1, 0x20) + notes + event(0, 0xFF, 0x2F, 0)
    return b"MThd" + struct.pack(">IHHH", 6, 0, 1, 96) + b"MTrk" + struct.pack(">I", len(track)) + track


def pdf():
    text = b"BT /F1 18 Tf 72 720 Td (The tide table) Tj ET"
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents 4 0 R /Resources << /Font << /F1 5 0 R >> >> >>",
        b"<< /Length %d >>\nstream\n%s\nendstream" % (len(text), text),
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ]
    out, offsets = b"%PDF-1.4\n%\xe2\xe3\xcf\xd3\n", []
    for number, content in enumerate(objects, 1):
        offsets.append(len(out))
        out += b"%d 0 obj\n%s\nendobj\n" % (number, content)
    table = b"0000000000 65535 f \n" + b"".join(b"%010d 00000 n \n" % offset for offset in offsets)
    return out + b"xref\n0 6\n" + table + b"trailer\n<< /Size 6 /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF\n" % len(out)


def elf():
    """An executable for x86-64 Linux that exits with status 0, with a string table and section headers."""
    code = bytes.fromhex("b83c0000000f1f00" "31ff0f05") + b"\x90" * 20
    names = b"\0.text\0.shstrtab\0"
    code_at, names_at = 120, 120 + len(code)
    sections_at = (names_at + len(names) + 7) // 8 * 8
    base = 0x400000
    header = b"\x7fELF" + bytes([2, 1, 1, 0]) + bytes(8)
    header += struct.pack("<HHIQQQIHHHHHH", 2, 62, 1, base + code_at, 64, sections_at, 0, 64, 56, 1, 64, 3, 2)
    segment = struct.pack("<IIQQQQQQ", 1, 5, 0, base, base, names_at, names_at, 0x1000)
    sections = bytes(64)
    sections += struct.pack("<IIQQQQIIQQ", 1, 1, 6, base + code_at, code_at, len(code), 0, 0, 16, 0)
    sections += struct.pack("<IIQQQQIIQQ", 7, 3, 0, 0, names_at, len(names), 0, 0, 1, 0)
    body = header + segment + code + names
    return body + bytes(sections_at - len(body)) + sections


def wasm():
    """A module that exports `add`, with a name section."""
    def section(number, content):
        return bytes([number, len(content)]) + content

    names = b"\x04name\x01\x06\x01\x00\x03add"
    return (b"\0asm\x01\0\0\0" + section(1, b"\x01\x60\x02\x7f\x7f\x01\x7f") + section(3, b"\x01\x00")
            + section(7, b"\x01\x03add\x00\x00") + section(10, b"\x01\x07\x00\x20\x00\x20\x01\x6a\x0b") + section(0, names))


def pcap():
    header = struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1)
    def packet(second):
        payload = b"GET /tide/%d HTTP/1.1\r\nHost: station.example\r\n\r\n" % second
        tcp = struct.pack(">HHIIBBHHH", 40000 + second, 80, second, 0, 0x50, 0x18, 8192, 0, 0)
        ip = struct.pack(">BBHHHBBHII", 0x45, 0, 40 + len(payload), second, 0, 64, 6, 0, 0x0A000001, 0x0A000002)
        frame = bytes(range(12)) + b"\x08\x00" + ip + tcp + payload
        return struct.pack("<IIII", 1767600000 + second, 0, len(frame), len(frame)) + frame
    return header + b"".join(packet(second) for second in range(12))


def sqlite():
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "tides.db")
        database = sqlite3.connect(path)
        database.execute("CREATE TABLE tide (hour INTEGER PRIMARY KEY, cm INTEGER NOT NULL)")
        database.executemany("INSERT INTO tide VALUES (?, ?)", [(hour, hour * 37 % 240) for hour in range(24)])
        database.commit()
        database.close()
        return path.read_bytes()


def zipped(members, stored=()):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, content in members:
            info = zipfile.ZipInfo(name, ZIP_TIME)
            info.compress_type = zipfile.ZIP_STORED if name in stored else zipfile.ZIP_DEFLATED
            archive.writestr(info, content)
    return out.getvalue()


def office(part, content_type, content):
    """A minimal Office Open XML package."""
    xml = '<?xml version="1.0" encoding="UTF-8" standalone="yes"?>\n'
    namespace = "http://schemas.openxmlformats.org"
    types = (f'{xml}<Types xmlns="{namespace}/package/2006/content-types">'
             '<Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
             '<Default Extension="xml" ContentType="application/xml"/>'
             f'<Override PartName="/{part}" ContentType="{content_type}"/></Types>')
    relationships = (f'{xml}<Relationships xmlns="{namespace}/package/2006/relationships"><Relationship Id="rId1" '
                     f'Type="{namespace}/officeDocument/2006/relationships/officeDocument" Target="{part}"/></Relationships>')
    return zipped([("[Content_Types].xml", types), ("_rels/.rels", relationships), (part, xml + content)])


def docx():
    namespace = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
    paragraphs = "".join(f"<w:p><w:r><w:t>Tide {i}</w:t></w:r></w:p>" for i in range(20))
    kind = "application/vnd.openxmlformats-officedocument.wordprocessingml.document.main+xml"
    return office("word/document.xml", kind, f'<w:document xmlns:w="{namespace}"><w:body>{paragraphs}</w:body></w:document>')


def xlsx():
    namespace = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
    kind = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet.main+xml"
    return office("xl/workbook.xml", kind, f'<workbook xmlns="{namespace}"><sheets><sheet name="Tides" sheetId="1"/></sheets></workbook>')


def open_document(kind, content):
    mime_type = f"application/vnd.oasis.opendocument.{kind}"
    namespace = "urn:oasis:names:tc:opendocument:xmlns"
    manifest = (f'<manifest:manifest xmlns:manifest="{namespace}:manifest:1.0"><manifest:file-entry manifest:full-path="/" '
                f'manifest:media-type="{mime_type}"/></manifest:manifest>')
    document = (f'<office:document-content xmlns:office="{namespace}:office:1.0" xmlns:text="{namespace}:text:1.0">'
                f"<office:body>{content}</office:body></office:document-content>")
    return zipped([("mimetype", mime_type), ("content.xml", document), ("META-INF/manifest.xml", manifest)], stored={"mimetype"})


def epub():
    container = ('<?xml version="1.0"?><container version="1.0" xmlns="urn:oasis:names:tc:opendocument:xmlns:container"><rootfiles>'
                 '<rootfile full-path="book.opf" media-type="application/oebps-package+xml"/></rootfiles></container>')
    book = '<?xml version="1.0"?><package xmlns="http://www.idpf.org/2007/opf" version="3.0"><metadata/><manifest/><spine/></package>'
    members = [("mimetype", "application/epub+zip"), ("META-INF/container.xml", container), ("book.opf", book), ("one.xhtml", TEXTS["page.html"])]
    return zipped(members, stored={"mimetype"})


def jar():
    manifest = "Manifest-Version: 1.0\r\nCreated-By: corpus\r\nMain-Class: example.bank.Account\r\n\r\n"
    return zipped([("META-INF/MANIFEST.MF", manifest), ("example/bank/Account.class", b"\xca\xfe\xba\xbe\0\0\0\x34" + bytes(200))])


def tar(members):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for name in members:
            content = TEXTS[name].encode()
            info = tarfile.TarInfo(name)
            info.size, info.mtime = len(content), 1767600000
            archive.addfile(info, io.BytesIO(content))
    return out.getvalue()


def npy():
    header = b"{'descr': '<f8', 'fortran_order': False, 'shape': (40,), }"
    header += b" " * (-(len(header) + 11) % 64) + b"\n"
    values = struct.pack("<40d", *(i / 7 for i in range(40)))
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + values


def python_bytecode():
    code = compile(TEXTS["primes.py"], "primes.py", "exec", dont_inherit=True, optimize=0)
    import importlib.util

    return importlib.util.MAGIC_NUMBER + struct.pack("<III", 0, 1767600000, len(TEXTS["primes.py"])) + marshal.dumps(code)


def torrent():
    def encoded(value):
        if isinstance(value, int):
            return b"i%de" % value
        if isinstance(value, bytes):
            return b"%d:%s" % (len(value), value)
        return b"d" + b"".join(encoded(key) + encoded(value[key]) for key in sorted(value)) + b"e"

    pieces = bytes(i * 89 % 256 for i in range(400))
    info = {b"length": 262144 * 20, b"name": b"tides.iso", b"piece length": 262144, b"pieces": pieces}
    return encoded({b"announce": b"http://tracker.example/announce", b"creation date": 1767600000, b"info": info})


def pem():
    import base64

    body = base64.encodebytes(bytes(i * 113 % 256 for i in range(900))).decode().replace("\n", "")
    lines = "\n".join(body[i : i + 64] for i in range(0, len(body), 64))
    return f"-----BEGIN PUBLIC KEY-----\n{lines}\n-----END PUBLIC KEY-----\n".encode()


def binaries():
    return {
        "image.png": png(40, 40),
        "image.gif": gif(30, 20),
        "image.bmp": bmp(20, 20),
        "image.ico": ico(),
        "image.tiff": tiff(40, 30),
        "sound.wav": wav(),
        "song.mid": midi(),
        "page.pdf": pdf(),
        "program.elf": elf(),
        "module.wasm": wasm(),
        "packets.pcap": pcap(),
        "tides.sqlite": sqlite(),
        "text.gz": gzip.compress(SENTENCES, mtime=0),
        "text.bz2": bz2.compress(SENTENCES),
        "text.xz": lzma.compress(SENTENCES),
        "text.zlib": zlib.compress(SENTENCES),
        "texts.zip": zipped([(name, TEXTS[name]) for name in ("letter.txt", "guide.md", "people.csv")]),
        "texts.tar": tar(["letter.txt", "guide.md"]),
        "letter.docx": docx(),
        "tides.xlsx": xlsx(),
        "letter.odt": open_document("text", "<office:text><text:p>The tide table</text:p></office:text>"),
        "tides.ods": open_document("spreadsheet", "<office:spreadsheet/>"),
        "book.epub": epub(),
        "bank.jar": jar(),
        "values.npy": npy(),
        "values.npz": zipped([("a.npy", npy()), ("b.npy", npy())], stored={"a.npy", "b.npy"}),
        "values.pickle": pickle.dumps({"tides": [{"hour": hour, "cm": hour * 37 % 240} for hour in range(24)]}, protocol=4),
        "primes.bytecode": python_bytecode(),
        "tides.torrent": torrent(),
        "key.pem": pem(),
    }


def hard_ones():
    """Lengths around every limit of the reader, and contents that are no file of any kind."""
    rng = random.Random(1)
    noise = rng.randbytes(9000)
    prose = (TEXTS["letter.txt"] * 30).encode()
    code = (TEXTS["primes.py"] * 12).encode()
    return {
        "hard-empty": b"",
        "hard-1-byte": b"a",
        "hard-1-byte-not-utf8": b"\xff",
        "hard-4-bytes-utf8": "\U0001f30a".encode(),
        "hard-4-bytes-text": b"tide",
        "hard-7-bytes": b"1234567",
        "hard-8-bytes": b"12345678",
        "hard-8-bytes-not-utf8": b"\x80\x81\xfe\xff\x00\x01\x02\x03",
        "hard-white-space": b" \t\r\n\x0b\x0c" * 100,
        "hard-white-space-long": b" \n" * 5000,
        "hard-white-space-around-7": b"\n" * 50 + b"1234567" + b" " * 50,
        "hard-white-space-around-8": b"\n" * 50 + b"12345678" + b" " * 50,
        "hard-white-space-block-then-code": b" " * 4096 + code,
        "hard-white-space-then-not-utf8": b" " * 4090 + b"\xff\xfe\xfd" + b" " * 10,
        "hard-vertical-tab-and-separators": b"\x0b\x0c\x1c\x1d\x1e\x1f\x85\xa0" + prose[:500] + b"\x1f\x0b",
        "hard-utf8-cut-at-block-end": b" " * 4095 + "\u00e9".encode() + b" " * 4096,
        "hard-code-1023": code[:1023],
        "hard-code-1024": code[:1024],
        "hard-code-1025": code[:1025],
        "hard-code-2048": code[:2048],
        "hard-code-4095": code[:4095],
        "hard-code-4096": code[:4096],
        "hard-code-4097": code[:4097],
        "hard-prose-1024-after-white-space": b"\n" * 3072 + prose[:1024],
        "hard-random-64": noise[:64],
        "hard-random-1023": noise[:1023],
        "hard-random-1024": noise[1024:2048],
        "hard-random-9000": noise,
        "hard-zeros": bytes(3000),
        "hard-utf16": "The tide table says 120 cm at noon.\n".encode("utf-16") * 20,
        "hard-latin1": "Die H\u00f6he der Flut betr\u00e4gt 120 cm, f\u00fcr Kapit\u00e4ne.\n".encode("latin-1") * 20,
        "hard-png-cut": png(40, 40)[:60],
        "hard-png-then-code": png(40, 40) + code,
        "hard-zip-after-text": prose[:3000] + zipped([("letter.txt", prose)]),
        "hard-chinese": "\u6f6e\u6c50\u8868\u8bf4\u4e2d\u5348\u662f\u4e00\u767e\u4e8c\u5341\u5398\u7c73\u3002\n".encode() * 60,
    }


def main(out):
    folder = pathlib.Path(out)
    folder.mkdir(parents=True, exist_ok=True)
    files = {name: text.encode() for name, text in TEXTS.items()} | binaries() | hard_ones()
    for name, content in sorted(files.items()):
        (folder / name).write_bytes(content)
    print(f"{len(files)} files, {sum(map(len, files.values()))} bytes")


if __name__ == "__main__":
    main(*sys.argv[1:])
