# A C program of `functions` functions with loops, switches and floating point: work for a compiler.
BEGIN {
    print "struct node { struct node *next; int key; double weight; };"
    for (i = 0; i < functions; i++) {
        printf "static long f%d(struct node *n, const int *table, long count)\n{\n", i
        printf "\tlong sum = %d;\n\tdouble total = 0;\n", i
        printf "\tfor (long i = 0; i < count; i++) {\n"
        printf "\t\tint x = table[(i * %d + sum) & 255] ^ (int)(sum >> %d);\n", 2 * i + 1, i % 7 + 1
        printf "\t\tswitch (x & 7) {\n"
        for (c = 0; c < 7; c++)
            printf "\t\tcase %d: sum += x * %d - (table[x & 63] << %d); break;\n", c, (i + c) % 11 + 2, c % 5
        printf "\t\tdefault: for (int j = 0; j < 8; j++) sum ^= table[j + %d] + j * x;\n\t\t}\n\t}\n", i % 32
        printf "\tfor (; n; n = n->next) {\n\t\ttotal += n->weight * %d.5 / (n->key + 1);\n", i
        printf "\t\tif (total > 1e%d)\n\t\t\ttotal -= n->key;\n\t}\n", i % 9 + 3
        if (i)
            printf "\tif (sum & 1)\n\t\tsum += f%d(n, table, count / 2);\n", i - 1
        printf "\treturn sum + (long)total;\n}\n"
    }
    printf "long all(struct node *n, const int *table)\n{\n\treturn f%d(n, table, 1000);\n}\n", functions - 1
}
