#!/usr/bin/python3
"""Servers that beds have instead of a network.

    servers.py hub BEHIND CERTIFICATE KEY LOG
    servers.py token PORT BEHIND ELSEWHERE LEAKED
    servers.py machine LAYOUT NAME REPOSITORY HOST...

hub     plays Docker Hub: registry-1.docker.io and auth.docker.io, both at 127.0.0.1:443. BEHIND is the address of a registry
        that has the repositories; who wants one there needs a token. Those in `private/` are for the user "someone" with the
        password "pass:word", or with the identity token "who-i-am", those in `others/` for nobody here. `library/limited`
        has been pulled too often. Each request is a line of LOG: host, path, and who asks.
token   is in front of the registry BEHIND at 127.0.0.1:PORT, requires a token, and breaks off the first answer to each long
        request. It redirects requests for `away` to the registry ELSEWHERE, and makes LEAKED if these have a password; it sends
        requests for `elsewhere` to a third party for a token.
machine is a registry of one image at 127.0.0.1:5000, NAME of LAYOUT as REPOSITORY:latest; and a name server, at 127.0.0.1:53,
        which says of each HOST that it is at 127.0.0.1, and of all others that there are none.
"""

import base64
import http.server
import json
import socketserver
import ssl
import struct
import sys
import threading
import urllib.error
import urllib.parse
import urllib.request

KIND, *ARGUMENTS = sys.argv[1:]


class Handler(http.server.BaseHTTPRequestHandler):
    def log_message(self, *_):
        pass

    def answer(self, status, body, sent=None, **headers):
        """Sends an answer, of whose body only the beginning if `sent` says so."""
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body[:sent])

    def refuse(self, status, code, message, **headers):
        body = json.dumps({"errors": [{"code": code, "message": message, "detail": None}]})
        self.answer(status, body.encode(), Content_Type="application/json", **headers)

    def ask(self, behind, *names):
        """What the registry behind says to this request with these headers: status, type, contents."""
        headers = {name: self.headers[name] for name in names if self.headers.get(name)}
        try:
            with urllib.request.urlopen(urllib.request.Request(f"http://{behind}{self.path}", headers=headers)) as answer:
                return answer.status, answer.headers["Content-Type"], answer.read()
        except urllib.error.HTTPError as error:
            return error.code, "application/json", error.read()


REALM = 'Bearer realm="https://auth.docker.io/token",service="registry.docker.io"'
PASSWORD = "Basic " + base64.b64encode(b"someone:pass:word").decode()


class Hub(Handler):
    def note(self, who):
        with open(ARGUMENTS[3], "a", encoding="utf-8") as log:
            print(self.headers["Host"], self.path, who, file=log)

    def do_POST(self):
        form = urllib.parse.parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
        asked = {name: form.get(name, [""])[0] for name in ("grant_type", "service", "scope", "refresh_token")}
        assert self.headers["Host"] == "auth.docker.io" and asked["service"] == "registry.docker.io"
        if asked["grant_type"] != "refresh_token" or asked["refresh_token"] != "who-i-am":
            return self.answer(401, b'{"details": "incorrect refresh token"}')
        self.note("someone by identity")
        self.give("someone", asked["scope"], "access_token")

    def do_GET(self):
        if self.headers["Host"] == "auth.docker.io":
            return self.token()
        assert self.headers["Host"] == "registry-1.docker.io"
        sent = self.headers.get("Authorization", "")
        user, _, scope = sent.removeprefix("Bearer for-").partition("%20")
        parts = self.path.split("/")
        repository = "/".join(parts[2:-2])
        self.note(user or "nobody")
        if not sent.startswith("Bearer for-"):
            wanted = f',scope="repository:{repository}:pull"' if repository else ""
            return self.refuse(401, "UNAUTHORIZED", "authentication required", WWW_Authenticate=REALM + wanted)
        if self.path == "/v2/":
            return self.answer(200, b"{}")
        is_hidden = parts[2] == "others" or (parts[2] == "private" and user != "someone")
        if is_hidden or scope != f"repository:{repository}:pull":
            return self.refuse(401, "UNAUTHORIZED", "authentication required", WWW_Authenticate=REALM)
        if repository == "library/limited":
            return self.refuse(429, "TOOMANYREQUESTS", "You have reached your pull rate limit.", Retry_After="60")
        status, kind, body = self.ask(ARGUMENTS[0], "Accept")
        self.answer(status, body, Content_Type=kind)

    def token(self):
        query = urllib.parse.parse_qs(urllib.parse.urlsplit(self.path).query)
        sent = self.headers.get("Authorization")
        self.note({None: "nobody", PASSWORD: "someone"}.get(sent, "a stranger"))
        if query.get("service") != ["registry.docker.io"]:
            return self.answer(400, b'{"details": "no such service"}')
        if sent not in (None, PASSWORD):
            return self.answer(401, b'{"details": "incorrect username or password"}')
        self.give("someone" if sent else "nobody", query.get("scope", [""])[0], "token")

    def give(self, user, scope, member):
        # A real token is opaque, and has no spaces; this one is parsed again above.
        token = f"for-{user}%20{scope}"
        self.answer(200, json.dumps({member: token}).encode(), Content_Type="application/json")


class Token(Handler):
    broken = set()

    def do_GET(self):
        port, behind, elsewhere, leaked = ARGUMENTS
        if self.path.startswith("/token"):
            assert "scope=repository" in self.path and "service=test" in self.path
            return self.answer(200, json.dumps({"token": "let-me-in"}).encode())
        if self.path.startswith("/v2/away/"):
            if self.headers.get("Authorization"):
                open(leaked, "w", encoding="ascii").close()
            return self.answer(307, b"", Location=f"http://{elsewhere}/v2/box/manifests/1")
        if self.path.startswith("/v2/elsewhere/"):
            return self.answer(401, b"{}", WWW_Authenticate='Bearer realm="http://registry.test/token"')
        if self.headers.get("Authorization") != "Bearer let-me-in":
            challenge = f'Bearer realm="http://127.0.0.1:{port}/token",service="test",scope="repository:x:pull"'
            return self.answer(401, b"{}", WWW_Authenticate=challenge)
        status, kind, body = self.ask(behind, "Accept", "Range")
        breaks = len(body) > 100000 and self.path not in self.broken
        if breaks:
            self.broken.add(self.path)
        self.answer(status, body, len(body) // 2 if breaks else None, Content_Type=kind)


class Registry(Handler):
    def blob(self, digest):
        with open(f"{ARGUMENTS[0]}/blobs/{digest.replace(':', '/')}", "rb") as file:
            return file.read()

    def do_GET(self):
        layout, name, repository = ARGUMENTS[:3]
        with open(f"{layout}/index.json", encoding="utf-8") as file:
            manifests = json.load(file)["manifests"]
        image = next(each for each in manifests if each.get("annotations", {}).get("org.opencontainers.image.ref.name") == name)
        kind, wanted = self.path.removeprefix(f"/v2/{repository}/").split("/")[-2:]
        digest = image["digest"] if kind == "manifests" and wanted == "latest" else wanted
        media = image["mediaType"] if kind == "manifests" else "application/octet-stream"
        try:
            self.answer(200, self.blob(digest), Content_Type=media, Docker_Content_Digest=digest)
        except OSError:
            self.refuse(404, "MANIFEST_UNKNOWN", "manifest unknown")


class Names(socketserver.BaseRequestHandler):
    def handle(self):
        query, socket = self.request
        name, at = [], 12
        while query[at]:
            name.append(query[at + 1 : at + 1 + query[at]].decode())
            at += 1 + query[at]
        question = query[12 : at + 5]
        kind = struct.unpack(">H", question[-4:-2])[0]
        is_known = ".".join(name) in ARGUMENTS[3:]
        print(".".join(name), {1: "A", 28: "AAAA"}.get(kind, kind), is_known, flush=True)
        address = b"\xc0\x0c" + struct.pack(">HHIH", 1, 1, 60, 4) + bytes([127, 0, 0, 1])
        answers = [address] if is_known and kind == 1 else []
        # A response to a recursive query, with recursion available; 3 (NXDOMAIN): the name does not exist.
        header = query[:2] + struct.pack(">HHHHH", 0x8180 | (0 if is_known else 3), 1, len(answers), 0, 0)
        socket.sendto(header + question + b"".join(answers), self.client_address)


if KIND == "hub":
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 443), Hub)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(ARGUMENTS[1], ARGUMENTS[2])
    server.socket = context.wrap_socket(server.socket, server_side=True)
elif KIND == "token":
    server = http.server.ThreadingHTTPServer(("127.0.0.1", int(ARGUMENTS[0])), Token)
else:
    names = socketserver.ThreadingUDPServer(("127.0.0.1", 53), Names)
    threading.Thread(target=names.serve_forever, daemon=True).start()
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 5000), Registry)
server.serve_forever()
