import os, select, time
import dayfly_template
dayfly_template.wait()
def say(letter):
    os.write(1, b'%s %.6f\n' % (letter, time.time()))
# A file of the host cannot be saved.
os.dup2(os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC), 2)
say(b'r')
while line := os.read(0, 64):
    say(b'b')
    select.select([0], [], [], float(line))
    say(b'd')
