// Reads views as a BI tool on a JVM does: the catalogue first, then rows by typed getters, in pages, with parameters.
// Prints a line for each answer: its name and its values, separated by tabs.
//
// java -cp postgresql.jar ViewsByJdbc.java JDBC-URL

import java.math.BigDecimal;
import java.sql.Connection;
import java.sql.DatabaseMetaData;
import java.sql.Date;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.ResultSetMetaData;
import java.sql.SQLException;
import java.sql.Timestamp;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.time.OffsetDateTime;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import java.util.TimeZone;

public class ViewsByJdbc {
    public static void main(String[] arguments) throws Exception {
        // A tool runs wherever its user is.
        TimeZone.setDefault(TimeZone.getTimeZone("America/New_York"));
        try (Connection connection = DriverManager.getConnection(arguments[0])) {
            catalogue(connection.getMetaData());
            columnsOfResult(connection);
            values(connection);
            parameters(connection);
            pages(connection);
            refusals(connection);
        }
    }

    static void catalogue(DatabaseMetaData about) throws SQLException {
        print("product", about.getDatabaseProductName());
        try (ResultSet found = about.getSchemas()) {
            while (found.next()) {
                String name = found.getString("TABLE_SCHEM");
                if (!name.startsWith("pg_") && !name.equals("information_schema")) {
                    print("schema", name);
                }
            }
        }
        try (ResultSet found = about.getTables(null, "shop", "%", new String[] {"TABLE", "VIEW"})) {
            while (found.next()) {
                print("table", found.getString("TABLE_NAME"), found.getString("TABLE_TYPE"));
            }
        }
        try (ResultSet found = about.getColumns(null, "shop", "every_type", "%")) {
            while (found.next()) {
                print("column", found.getString("COLUMN_NAME"), found.getInt("DATA_TYPE"), found.getString("TYPE_NAME"),
                    found.getInt("COLUMN_SIZE"), found.getInt("DECIMAL_DIGITS"), found.getString("IS_NULLABLE"));
            }
        }
        try (ResultSet found = about.getIndexInfo(null, "shop", "every_type", true, true)) {
            while (found.next()) {
                print("unique", found.getString("COLUMN_NAME"));
            }
        }
    }

    static void columnsOfResult(Connection connection) throws SQLException {
        try (PreparedStatement asked = connection.prepareStatement("SELECT * FROM shop.every_type WHERE id = 1")) {
            ResultSetMetaData about = asked.getMetaData(); // before it is run, as report designers do
            for (int number = 1; number <= about.getColumnCount(); number++) {
                print("result", about.getColumnName(number), about.getColumnClassName(number));
            }
        }
    }

    static void values(Connection connection) throws SQLException {
        try (ResultSet row = connection.createStatement().executeQuery("SELECT * FROM shop.every_type ORDER BY id")) {
            while (row.next()) {
                BigDecimal amount = row.getBigDecimal("amount");
                Timestamp classic = row.getTimestamp("at");
                byte[] blob = row.getBytes("blob");
                Date day = row.getDate("day");
                print("row", row.getLong("id"), nullable(row, row.getBoolean("yes")), nullable(row, row.getInt("small")),
                    nullable(row, row.getDouble("ratio")), amount == null ? null : amount.toPlainString(),
                    row.getString("name"), blob == null ? null : HexFormat.of().formatHex(blob));
                print("times", row.getObject("day", LocalDate.class), day, row.getObject("at", OffsetDateTime.class),
                    classic == null ? null : classic.toInstant(), row.getObject("wall", LocalDateTime.class));
                print("nested", row.getString("tags"), row.getString("place"));
            }
        }
    }

    static void parameters(Connection connection) throws SQLException {
        String sql = "SELECT id FROM shop.every_type WHERE amount >= ? AND at >= ? AND name = ? AND yes = ?";
        try (PreparedStatement asked = connection.prepareStatement(sql)) {
            for (int time = 0; time < 7; time++) { // from the fifth on it is prepared in the server, and read in binary
                asked.setBigDecimal(1, new BigDecimal("12.34"));
                asked.setObject(2, OffsetDateTime.parse("2026-03-29T00:59:59.123456Z"));
                asked.setString(3, "Åse 💧");
                asked.setBoolean(4, true);
                try (ResultSet row = asked.executeQuery()) {
                    while (row.next()) {
                        print("found", row.getLong(1));
                    }
                }
            }
        }
    }

    static void pages(Connection connection) throws SQLException {
        connection.setAutoCommit(false); // a cursor, as tools use it for large results
        List<Object> said = new ArrayList<>();
        try (PreparedStatement asked = connection.prepareStatement("SELECT id, amount FROM shop.many ORDER BY id")) {
            asked.setFetchSize(100);
            long rows = 0;
            BigDecimal sum = BigDecimal.ZERO;
            try (ResultSet row = asked.executeQuery()) {
                while (row.next()) {
                    rows += 1;
                    sum = sum.add(row.getBigDecimal(2));
                }
            }
            said.addAll(List.of("pages", rows, sum.toPlainString()));
        }
        connection.commit();
        connection.setAutoCommit(true);
        print(said.toArray());
    }

    static void refusals(Connection connection) throws SQLException {
        for (String sql : List.of("DELETE FROM shop.many", "DROP TABLE shop.many", "CREATE TABLE shop.mine (a int)")) {
            try {
                connection.createStatement().execute(sql);
                print("done", sql);
            } catch (SQLException refused) {
                print("refused", refused.getSQLState());
            }
        }
    }

    static Object nullable(ResultSet row, Object value) throws SQLException {
        return row.wasNull() ? null : value;
    }

    static void print(Object... values) {
        List<String> texts = new ArrayList<>();
        for (Object value : values) {
            texts.add(String.valueOf(value));
        }
        byte[] line = (String.join("\t", texts) + "\n").getBytes(java.nio.charset.StandardCharsets.UTF_8);
        System.out.write(line, 0, line.length);
        System.out.flush();
    }
}
