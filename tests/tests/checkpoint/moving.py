# Once the file `go` exists, a thread changes the mappings of blocks whose content is known, and compares it. A wrong byte
# makes the file `bad`. Two such threads could lose pages: docs/checkpoint.md.
import ctypes, hashlib, os, random, threading, time

libc = ctypes.CDLL(None, use_errno=True)
for call in libc.mmap, libc.mremap:
    call.restype = ctypes.c_void_p
PAGE, PAGES, BLOCKS = 4096, 24, 64
READ, WRITE = 1, 2
PRIVATE, FIXED, ANONYMOUS = 2, 16, 32
DONTNEED, DONTFORK, DOFORK = 4, 10, 11
MAYMOVE_FIXED = 3


def mapped(address, pages, flags=0):
    found = libc.mmap(ctypes.c_void_p(address), ctypes.c_size_t(pages * PAGE), READ | WRITE,
                      PRIVATE | ANONYMOUS | flags, -1, ctypes.c_long(0))
    assert found not in (None, 2 ** 64 - 1), os.strerror(ctypes.get_errno())
    return found


def content(block, page):
    return hashlib.sha512(b"%d %d" % (block, page)).digest() * (PAGE // 64)


def call(name, *words):
    words = [ctypes.c_void_p(word) for word in words]
    assert getattr(libc, name)(*words) not in (-1, 2 ** 64 - 1), os.strerror(ctypes.get_errno())


# Places from which a block has been moved.
free = []


class Block:
    def __init__(self, number, address):
        self.number, self.address = number, address
        self.fill(range(PAGES))

    def fill(self, pages):
        for page in pages:
            ctypes.memmove(self.address + page * PAGE, content(self.number, page), PAGE)

    def check(self, pages=range(PAGES)):
        for page in pages:
            if ctypes.string_at(self.address + page * PAGE, PAGE) != content(self.number, page):
                open("/bad", "w").close()

    def change(self):
        middle = self.address + random.randrange(1, PAGES - 1) * PAGE
        what = random.choice([0, 1, 1, 1, 1, 1, 1, 2, 3, 4, 5])
        if what == 0:
            # Splits the mapping, and joins its parts again.
            call("mprotect", middle, PAGE, READ)
            self.check(random.sample(range(PAGES), 2))
            call("mprotect", middle, PAGE, READ | WRITE)
        elif what == 1:
            place = free.pop() if free else mapped(0, PAGES)
            call("mremap", self.address, PAGES * PAGE, PAGES * PAGE, MAYMOVE_FIXED, place)
            free.append(self.address)
            self.address = place
        elif what == 2:
            call("madvise", middle, PAGE, DONTNEED)
            assert ctypes.string_at(middle, PAGE) == bytes(PAGE)
            self.fill([(middle - self.address) // PAGE])
        elif what == 3:
            # The only mapping of which nothing is to stay.
            mapped(middle, 1, FIXED)
            self.fill([(middle - self.address) // PAGE])
        elif what == 4:
            self.check()
        else:
            call("madvise", middle, PAGE, DONTFORK)
            child = os.fork()
            if child == 0:
                before = (middle - self.address) // PAGE
                self.check(random.sample([page for page in range(PAGES) if page != before], 4))
                os._exit(0)
            if os.waitpid(child, 0)[1]:
                open("/bad", "w").close()
            call("madvise", middle, PAGE, DOFORK)


def change(blocks):
    while True:
        random.choice(blocks).change()


start = mapped(0, PAGES * BLOCKS)
blocks = [Block(number, start + number * PAGES * PAGE) for number in range(BLOCKS)]
# Adjacent blocks are mappings of their own, whose pages are one range.
for block in blocks[::2]:
    call("mprotect", block.address, PAGES * PAGE, READ | WRITE | 4)
count = 0
while True:
    if os.path.exists("/go"):
        os.unlink("/go")
        threading.Thread(target=change, args=[blocks], daemon=True).start()
    count += 1
    with open("/n.new", "w") as file:
        file.write("%d\n" % count)
    os.rename("/n.new", "/n")
    time.sleep(0.005)
