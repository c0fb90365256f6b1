import java.nio.file.*;
import java.util.*;
import java.util.regex.*;
import java.util.stream.*;

public class Warm {
    public static void main(String[] arguments) throws Exception {
        Pattern odd = Pattern.compile(".*[13579]");
        Map<String, Long> counts = IntStream.range(0, 100000).mapToObj(Integer::toString)
            .filter(text -> odd.matcher(text).matches())
            .collect(Collectors.groupingBy(text -> text.substring(0, 1), TreeMap::new, Collectors.counting()));
        java.util.logging.Logger.getLogger("warm").fine(counts.toString());
        java.time.ZonedDateTime.now().format(java.time.format.DateTimeFormatter.ISO_DATE_TIME);
        java.security.MessageDigest.getInstance("SHA-256").digest(counts.toString().getBytes());
        Path ready = Path.of("/out/ready");
        while (true) {
            if (!Files.exists(ready))
                Files.createFile(ready);
            Thread.sleep(1);
        }
    }
}
