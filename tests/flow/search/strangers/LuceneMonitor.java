import java.io.BufferedWriter;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.lucene.analysis.Analyzer;
import org.apache.lucene.analysis.LowerCaseFilter;
import org.apache.lucene.analysis.TokenStream;
import org.apache.lucene.analysis.Tokenizer;
import org.apache.lucene.analysis.charfilter.MappingCharFilter;
import org.apache.lucene.analysis.charfilter.NormalizeCharMap;
import org.apache.lucene.analysis.core.KeywordAnalyzer;
import org.apache.lucene.analysis.miscellaneous.PerFieldAnalyzerWrapper;
import org.apache.lucene.analysis.snowball.SnowballFilter;
import org.apache.lucene.analysis.standard.StandardTokenizer;
import org.apache.lucene.document.Document;
import org.apache.lucene.document.Field;
import org.apache.lucene.document.LongPoint;
import org.apache.lucene.document.StringField;
import org.apache.lucene.document.TextField;
import org.apache.lucene.monitor.MatchingQueries;
import org.apache.lucene.monitor.Monitor;
import org.apache.lucene.monitor.MonitorConfiguration;
import org.apache.lucene.monitor.MonitorQuery;
import org.apache.lucene.monitor.QueryDecomposer;
import org.apache.lucene.monitor.ScoringMatch;
import org.apache.lucene.monitor.TermFilteredPresearcher;
import org.apache.lucene.queryparser.flexible.standard.StandardQueryParser;
import org.apache.lucene.queryparser.flexible.standard.config.PointsConfig;
import org.apache.lucene.search.Query;
import org.apache.lucene.search.similarities.BM25Similarity;

/** Runs queries, one to a line, against documents (lang, n, title, body, with tabs between), and writes all hits. */
public final class LuceneMonitor {
    private static final NormalizeCharMap APART;

    static {
        // Since Unicode 15.1 a colon is between words; the tokenizer knows an earlier version.
        NormalizeCharMap.Builder builder = new NormalizeCharMap.Builder();
        builder.add(":", " ");
        APART = builder.build();
    }

    private static Analyzer analyzer(boolean stems) {
        return new Analyzer() {
            @Override
            protected java.io.Reader initReader(String field, java.io.Reader reader) {
                return new MappingCharFilter(APART, reader);
            }

            @Override
            protected TokenStreamComponents createComponents(String field) {
                Tokenizer words = new StandardTokenizer();
                TokenStream small = new LowerCaseFilter(words);
                return new TokenStreamComponents(words, stems ? new SnowballFilter(small, "Porter") : small);
            }

            @Override
            protected TokenStream normalize(String field, TokenStream in) {
                return new LowerCaseFilter(in);
            }
        };
    }

    public static void main(String[] arguments) throws Exception {
        Analyzer both = new PerFieldAnalyzerWrapper(
            analyzer(false), new HashMap<>(Map.of("body", analyzer(true), "lang", new KeywordAnalyzer())));
        StandardQueryParser parser = new StandardQueryParser(both);
        parser.setMultiFields(new CharSequence[] {"title", "body"});
        parser.setAllowLeadingWildcard(true);
        parser.setPointsConfigMap(Map.of("n", new PointsConfig(java.text.NumberFormat.getIntegerInstance(java.util.Locale.ROOT), Long.class)));
        MonitorConfiguration whole = new MonitorConfiguration();
        // Else alternatives are queries of their own, and those that are alike count once in the score.
        whole.setQueryDecomposer(new QueryDecomposer() {
            @Override
            public Set<Query> decompose(Query query) {
                return Set.of(query);
            }
        });
        long started;
        try (Monitor monitor = new Monitor(both, new TermFilteredPresearcher(), whole);
             BufferedWriter out = Files.newBufferedWriter(Path.of(arguments[2]))) {
            List<MonitorQuery> queries = new ArrayList<>();
            int number = 0;
            for (String line : Files.readAllLines(Path.of(arguments[0]))) {
                queries.add(new MonitorQuery(Integer.toString(number++), parser.parse(line, null)));
            }
            monitor.register(queries);
            started = System.nanoTime();
            int documents = 0;
            for (String line : Files.readAllLines(Path.of(arguments[1]))) {
                String[] parts = line.split("\t", -1);
                Document document = new Document();
                document.add(new StringField("lang", parts[0], Field.Store.NO));
                document.add(new LongPoint("n", Long.parseLong(parts[1])));
                document.add(new TextField("title", parts[2], Field.Store.NO));
                document.add(new TextField("body", parts[3], Field.Store.NO));
                MatchingQueries<ScoringMatch> found =
                    monitor.match(document, ScoringMatch.matchWithSimilarity(new BM25Similarity()));
                for (ScoringMatch one : found.getMatches()) {
                    out.write(documents + "\t" + one.getQueryId() + "\t" + one.getScore() + "\n");
                }
                if (!found.getErrors().isEmpty()) {
                    throw new IllegalStateException(found.getErrors().toString());
                }
                documents++;
            }
        }
        System.out.println((System.nanoTime() - started) / 1e9);
    }
}
